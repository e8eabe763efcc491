"""From text to a prediction, without torch: text rules, encoding, the runtime, and the rules on values."""
