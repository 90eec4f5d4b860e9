"""Process chaos: real nodes, a real database, and somebody who breaks both."""
