"""The framework of the paper's experiments: requests, plans, stored records, sentences and the page."""
