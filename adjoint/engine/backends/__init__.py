"""Where operations run: array libraries for eager execution, targets for compiled programs."""
