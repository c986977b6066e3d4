"""The functions people call: grad, jvp, vmap, jacobians, checks."""
