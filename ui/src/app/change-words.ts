import '../areas/history/texts'

// What the history calls rows and what is done to them. Previews and the audit log say the same.
export { useNames } from '../areas/history/names'
export { useTexts } from '../areas/history/RowsView'
export { said } from '../areas/history/rows'
export { deedsOf, kindName, rowsOf, together } from '../areas/history/words'
