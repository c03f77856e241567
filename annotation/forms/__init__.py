"""What comes in from browsers, checked and explained in plain words."""
