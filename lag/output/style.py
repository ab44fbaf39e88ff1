"""The look of the page: one style sheet, for light, dark, paper, and narrow screens."""

from typing import Final

STYLE: Final = """
:root {
  color-scheme: light dark;
  --page: #f8fafc; --card: #ffffff; --ink: #0f172a; --soft: #475569; --line: #cbd5e1;
  --grid: #e2e8f0; --lane: #eef2f7; --link: #1d4ed8;
  --good: #15803d; --good-back: #dcfce7; --warn: #b45309; --warn-back: #fef3c7;
  --bad: #b91c1c; --bad-back: #fee2e2; --grey: #64748b; --grey-back: #e2e8f0;
  --move: #f59e0b; --mark: #64748b;
  --s0: #1d4ed8; --s1: #c2410c; --s2: #047857; --s3: #a21caf; --s4: #0e7490; --s5: #a16207;
  --s6: #be123c; --s7: #475569;
  --h0: #fde68a; --h1: #fbbf24; --h2: #f97316; --h3: #dc2626; --h4: #7f1d1d;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --page: #0b1220; --card: #121c2e; --ink: #e5ebf5; --soft: #a3b1c6; --line: #33415a;
    --grid: #24314a; --lane: #1a263c; --link: #93c5fd;
    --good: #86efac; --good-back: #14361f; --warn: #fcd34d; --warn-back: #43310a;
    --bad: #fca5a5; --bad-back: #4c1616; --grey: #b6c2d4; --grey-back: #2a374e;
    --move: #b4730a; --mark: #94a3b8;
    --s0: #7fb0ff; --s1: #fb9a5b; --s2: #4ade9b; --s3: #e58af0; --s4: #4fd1e5; --s5: #e3c04a;
    --s6: #fb7f95; --s7: #b6c2d4;
    --h0: #5b4a12; --h1: #94660d; --h2: #d9730d; --h3: #f0563f; --h4: #ffb4a8;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 1040px; padding: 24px 24px 64px; background: var(--page);
  color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif;
}
h1 { font-size: 26px; margin: 0 0 4px; }
h2 { font-size: 19px; margin: 0 0 4px; }
h3 { font-size: 15px; margin: 20px 0 4px; }
p { margin: 4px 0 10px; max-width: 76ch; }
a { color: var(--link); }
.soft { color: var(--soft); }
.small { font-size: 13px; }
section {
  background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 16px 20px 18px; margin-top: 18px;
}
nav { margin: 12px 0 0; font-size: 14px; line-height: 2; }
nav a { margin-right: 14px; white-space: nowrap; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 10px; }
.cards { margin-top: 16px; }
.card {
  background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 10px 14px;
}
.card b { display: block; font-size: 21px; line-height: 1.3; overflow-wrap: anywhere; }
.card .badge { font-size: 15px; margin-right: 4px; }
.scroll { overflow-x: auto; margin: 8px 0 0; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th, td { text-align: left; padding: 5px 10px 5px 0; border-bottom: 1px solid var(--grid); }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
td { vertical-align: top; font-variant-numeric: tabular-nums; }
td.number, th.number { text-align: right; padding-left: 10px; white-space: nowrap; }
td.time { white-space: nowrap; }
td.number + td.time, th.number + th.time { padding-left: 8px; }
td.text { min-width: 12em; overflow-wrap: anywhere; }
td.unknown, .unknown { color: var(--soft); font-style: italic; }
.badge {
  display: inline-block; padding: 0 8px; border-radius: 9px; font-size: 12.5px; font-weight: 600;
  white-space: nowrap;
}
.good { color: var(--good); background: var(--good-back); }
.warn { color: var(--warn); background: var(--warn-back); }
.bad { color: var(--bad); background: var(--bad-back); }
.grey { color: var(--grey); background: var(--grey-back); }
.chip {
  display: inline-block; padding: 0 6px; margin: 0 3px 2px 0; border-radius: 6px; font-size: 12.5px;
  border: 1px solid var(--line);
}
.chip.added { color: var(--good); background: var(--good-back); border-color: var(--good); }
.chip.removed {
  color: var(--soft); text-decoration: line-through; border-style: dashed;
}
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 2px 16px; padding: 0; }
.legend { font-size: 13.5px; margin: 6px 0; }
.legend svg { vertical-align: -2px; margin-right: 5px; }
svg { display: block; max-width: 100%; height: auto; }
.legend svg { display: inline-block; }
svg text { fill: var(--soft); font: 11.5px system-ui, -apple-system, "Segoe UI", sans-serif; }
svg .end { text-anchor: end; }
svg .mid { text-anchor: middle; }
svg .grid { stroke: var(--grid); }
svg .tick { stroke: var(--mark); }
svg .lane { fill: var(--lane); }
svg .mark { stroke: var(--mark); stroke-dasharray: 4 3; }
svg .marked { fill: var(--ink); }
svg .line { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
svg .band { fill: var(--move); opacity: 0.22; }
svg .in-bar { fill: #ffffff; }
svg .note { fill: var(--ink); }
.s0 { stroke: var(--s0); } .s1 { stroke: var(--s1); stroke-dasharray: 7 2; }
.s2 { stroke: var(--s2); stroke-dasharray: 3 2; } .s3 { stroke: var(--s3); }
.s4 { stroke: var(--s4); stroke-dasharray: 9 3 2 3; } .s5 { stroke: var(--s5); }
.s6 { stroke: var(--s6); stroke-dasharray: 5 4; } .s7 { stroke: var(--s7); }
.dot { fill: currentColor; stroke-width: 2.5; stroke-dasharray: none; }
.dot.s0 { fill: var(--s0); } .dot.s1 { fill: var(--s1); } .dot.s2 { fill: var(--s2); }
.dot.s3 { fill: var(--s3); } .dot.s4 { fill: var(--s4); } .dot.s5 { fill: var(--s5); }
.dot.s6 { fill: var(--s6); } .dot.s7 { fill: var(--s7); }
.h0 { fill: var(--h0); } .h1 { fill: var(--h1); } .h2 { fill: var(--h2); } .h3 { fill: var(--h3); }
.h4 { fill: var(--h4); }
.bar.lead { fill: #1d4ed8; } .bar.lead.other { fill: #0e7490; }
.bar.copy { fill: #b45309; } .bar.drop { fill: #64748b; } .bar.whole { fill: #94a3b8; }
.bar.up { fill: #15803d; } .bar.fenced { fill: #b91c1c; } .bar.joining { fill: #b45309; }
.bar.gone { fill: #0e7490; } .bar.two { fill: #15803d; } .bar.one { fill: #0e7490; }
.bar.none { fill: #b91c1c; }
.bar.completed { fill: #15803d; } .bar.cancelled { fill: #64748b; }
.bar.running { fill: #b45309; } .bar.stuck { fill: #b91c1c; } .bar.refused { fill: #7c3aed; }
.key { display: inline-block; width: 12px; height: 12px; border-radius: 2px; margin-right: 5px; }
.key { vertical-align: -1px; }
.narrow { display: none; }
@media screen and (max-width: 700px) {
  body { padding: 14px 10px 40px; }
  section { padding: 12px 12px 14px; }
  .wide { display: none; }
  .narrow { display: block; }
  h1 { font-size: 22px; }
  .cards { grid-template-columns: repeat(2, 1fr); }
  .card b { font-size: 17px; }
  table.stack thead { display: none; }
  table.stack tr { display: block; padding: 8px 0; border-bottom: 1px solid var(--line); }
  table.stack td { display: flex; gap: 10px; border: 0; padding: 1px 0; text-align: left; }
  table.stack td.number, table.stack td.number + td.time { padding-left: 0; }
  table.stack td::before {
    content: attr(data-title); color: var(--soft); flex: 0 0 118px; font-style: normal;
  }
  table.stack td.number { text-align: left; white-space: normal; }
}
@media print {
  body { max-width: none; padding: 0; background: #ffffff; font-size: 11pt; }
  section { break-inside: auto; border: 0; border-top: 1px solid var(--line); border-radius: 0; }
  section, .card { padding-left: 0; padding-right: 0; }
  .card { border: 0; }
  nav { display: none; }
  h2, h3 { break-after: avoid; }
  svg, tr, .cards { break-inside: avoid; }
  .card .badge { font-size: 15px; margin-right: 4px; }
.scroll { overflow: visible; }
  table { font-size: 7.5pt; }
  th, td, td.number, th.number, td.time { white-space: normal; padding: 3px 6px 3px 0; }
  td.text { min-width: 9em; }
  .badge, .chip { font-size: 7.5pt; padding: 0 4px; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
"""Colours of the lines are told apart by dashes as well, for paper and for eyes that see fewer."""
