"""Write datasets in formats that other tools load: image folder, conversations, WebDataset, Croissant."""
