"""The runner: the commands of participants, instructors and maintainers."""
