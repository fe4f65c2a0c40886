"""Write datasets in the forms that other tools load: image folder, Croissant, conversations, WebDataset."""
