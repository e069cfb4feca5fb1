"""What all of the paper's experiments share; see `fedgs.experiments.paper` for an overview."""
