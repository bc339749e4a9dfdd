"""Can the weights be trusted? Numbers first, words later."""
