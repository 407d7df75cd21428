"""What a step is, in named parts: its code, what that code reaches, and where it runs."""
