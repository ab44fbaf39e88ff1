"""`reassign-partitions`: one file for each action, the options, and the sentences.

Flags, files and printed sentences are those of `kafka-reassign-partitions.sh`. What was done is
printed on stdout even where a part failed; the reasons for that part go to stderr, with exit code
1.

`standing` and `standing_text` are another command, `metaquorum moves`: what Kafka's script has no
word for.
"""
