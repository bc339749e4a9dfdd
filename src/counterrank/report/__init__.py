"""What a person sees: the same model in a terminal, a notebook and a self-contained page."""
