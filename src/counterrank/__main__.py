"""python -m counterrank."""

from counterrank.cli.main import run

if __name__ == "__main__":
    run()
