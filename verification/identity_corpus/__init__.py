"""Small programs with one change each: is the change seen and named, and is the same code the same elsewhere?"""
