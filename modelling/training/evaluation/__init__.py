"""How well each method predicts judgements: on held-out judgements, and on new ones before learning from them."""
