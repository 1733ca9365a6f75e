import './texts'
import type { QueryClient } from '@tanstack/react-query'
import { http, unwrap } from '../../api/client'
import i18n from '../../i18n/i18n'
import { confirm } from '../../kit/change/confirm'
import { toast } from '../../kit/state/toast'

/** Asks for confirmation, and flushes the resolver's cache. */
export async function askToFlush(queries: QueryClient) {
  const yes = await confirm({
    title: i18n.t('dns:flush.title'),
    text: i18n.t('dns:flush.text'),
    verb: i18n.t('dns:flush.verb'),
    act: async () => {
      const { error } = await unwrap(http.POST('/dns/flush-cache'))
      if (error) throw new Error(error)
    },
  })
  if (!yes) return
  toast('live', i18n.t('dns:flush.done'))
  await queries.invalidateQueries({ queryKey: ['dns', 'stats'] })
}
