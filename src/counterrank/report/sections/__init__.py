"""The parts of the page, one file each, in the order of reading. A part without data is left out."""
