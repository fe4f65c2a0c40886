"""Write datasets in formats that other tools load: image folder, Croissant, conversations, WebDataset."""
