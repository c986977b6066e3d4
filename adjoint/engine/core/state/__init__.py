"""What is ambient, per thread or per process: context, settings, random generators, forks."""
