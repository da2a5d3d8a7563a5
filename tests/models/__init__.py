"""Small models of single lessons, and what the tests ask of them; the zoo has what all share."""
