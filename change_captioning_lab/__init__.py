"""The laboratory as a library, by the names that are the same in the repository and after `pip install`.

    from change_captioning_lab.captioner import PictureCaptioner
    from change_captioning_lab.judge import judge
    from change_captioning_lab.metrics import score

In an installed wheel, this package contains all others (setup.py), and importing it imports none of them.
"""
