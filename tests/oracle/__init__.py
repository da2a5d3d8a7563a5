"""torch's own code behind each lesson's names, so that the suite is judged by torch first."""
