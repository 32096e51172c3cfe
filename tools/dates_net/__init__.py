"""How the network that corrects harmonised references was trained and measured."""
