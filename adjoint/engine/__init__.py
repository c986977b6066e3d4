"""The framework itself. What people import lies beside this folder, which imports none of it."""
