"""The rest of each lesson's suite: stretch, beyond, sweeps, curiosities."""
