"""What each row of the table does: a card and the facts in, effects out.  `states.TABLE` says when.

A function is named as its row's event, without the words that its module has already.  Words in comments such as
"row: IU limit" point at the rows of docs/states.md.  The modules import each other one way, `pieces` being innermost.
"""
