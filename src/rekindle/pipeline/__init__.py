"""What a user declared: steps, their check, and which of them are kept."""
