"""`auto`: one estimate from several members, with an interval that allows for the bias it cannot see."""
