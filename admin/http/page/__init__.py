"""The live page of a cluster at `/`: its files, served with a strict content security policy."""
