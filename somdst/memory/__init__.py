"""What is remembered, in plain Python: the schema, the state, the operations on it, and dialogues as data."""
