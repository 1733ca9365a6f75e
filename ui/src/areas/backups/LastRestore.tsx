import './texts'
import { useQuery } from '@tanstack/react-query'
import { LastJob } from '../../kit/job/LastJob'
import { Notice } from '../../kit/state/Notice'
import { restoreQuery } from './resources'
import { usual } from './usual'

/** The running restore, or the result of the last one with what is left to do by hand. */
export function LastRestore() {
  const query = useQuery(restoreQuery)
  return (
    <LastJob
      text="backups"
      name="restore"
      usual={usual}
      query={query}
      more={({ warnings }) => warnings.map((text) => <Notice key={text} tone="warn" title={text} />)}
    />
  )
}
