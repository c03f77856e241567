"""The demo study: arguments we wrote ourselves and a simulated crowd that judges them."""
