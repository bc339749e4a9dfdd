"""Charts as SVG that stretches with the page: x in percent, y in pixels, so that text and marks
keep their size.
"""
