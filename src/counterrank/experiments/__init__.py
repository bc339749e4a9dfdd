"""The paper's figures and tables, by one command."""
