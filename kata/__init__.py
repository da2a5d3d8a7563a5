"""The runner: what stands around the lessons, for participants, instructors and maintainers."""
