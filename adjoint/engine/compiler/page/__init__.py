"""One page about a compiled function: what `explain(html=...)` writes."""
