"""One conversation: its log, the step of a turn, decisions, edits, audit, and the tracker that people use."""
