"""Drivers that publish into Delta tables die by kill -9 at random moments, publish at once, and wake up late."""
