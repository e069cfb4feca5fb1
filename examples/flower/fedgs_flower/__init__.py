"""FedGS in a Flower app."""
