"""Many regions in one driver for long: what grows?"""
