"""The state that the log describes: the image, its changes, its undo log and its snapshots."""
