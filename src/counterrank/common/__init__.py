"""What every package may use: errors and their texts, records, findings, options, files written whole, plug-ins."""
