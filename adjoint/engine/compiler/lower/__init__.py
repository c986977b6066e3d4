"""What each node is to the compiler: a point of a loop, a view, a template, a call."""
