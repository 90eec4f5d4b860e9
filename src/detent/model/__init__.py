"""What jobs mean: pure values and rules, with time and chance always passed in."""
