"""`ash service`: run `ash watch` as a service of the user."""
