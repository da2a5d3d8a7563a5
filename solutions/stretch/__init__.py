"""The stretch: what PyTorch does besides the cores, and what is done better than there."""
