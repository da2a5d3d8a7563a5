"""What a real browser says of the built site."""
