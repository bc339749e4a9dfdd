"""Compiled parts of the click models: likelihood and its derivatives, Newton steps, click-history recursions."""
