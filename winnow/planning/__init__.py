"""What is decided before anything is read or written: eligibility, estimates, plans. Pure."""
