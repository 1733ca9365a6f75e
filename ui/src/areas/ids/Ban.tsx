import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type Answer, answer, http } from '../../api/client'
import { Fault, toFault } from '../../api/fault'
import type { Resource } from '../../api/resource'
import { idsSettings } from '../../api/resources'
import type { IdsDecision } from '../../api/types'
import i18n from '../../i18n/i18n'
import { confirm } from '../../kit/change/confirm'
import type { Fields } from '../../kit/form/fields'
import { CreateDrawer } from '../../kit/form/ResourceDrawers'
import { Loaded } from '../../kit/state/Loaded'
import { paths } from '../../paths'
import { durationOf, secondsOf } from './duration'

const fields: Fields<'ids.decision'> = [
  { name: 'value', type: 'mono' },
  { name: 'duration', type: 'span' },
  { name: 'reason', type: 'text' },
]

interface Wanted {
  value: string
  duration: number | null
  reason: string
}

type Made = NonNullable<Awaited<ReturnType<typeof post>>['value']>

const post = ({ value, duration, reason }: Wanted, agreed: boolean) =>
  answer(
    http.POST('/ids/decisions', {
      body: { value: value.trim(), reason, confirm: agreed, ...(duration && { duration: durationOf(duration) }) },
    }),
  )

/** Bans an address. If an administrator is using it at the moment, asks first. */
async function ban(wanted: Wanted): Promise<Answer<Made>> {
  try {
    return await post(wanted, false)
  } catch (cause) {
    const { address, yours } = toFault(cause).details as { address?: string; yours?: boolean }
    if (!address) throw cause
    const yes = await confirm({
      title: i18n.t('ids:decision.askTitle', { address }),
      text: i18n.t(yours ? 'ids:decision.askOwn' : 'ids:decision.askOther', { address }),
      verb: i18n.t('ids:decision.askVerb'),
      danger: true,
    })
    if (yes) return post(wanted, true)
    throw new Fault({ code: 'kept', message: i18n.t('ids:decision.kept', { address }), status: 0 })
  }
}

export function Create() {
  const queries = useQueryClient()
  const settings = useQuery({ queryKey: [idsSettings.kind], queryFn: idsSettings.read })
  const decisions: Pick<Resource<IdsDecision>, 'kind' | 'create'> = {
    kind: 'ids.decision',
    create: async (body) => {
      const made = await ban(body as Wanted)
      await queries.invalidateQueries({ queryKey: ['ids'] })
      return made
    },
  }
  return (
    <Loaded query={settings}>
      {({ value }) => (
        <CreateDrawer
          resource={decisions}
          text="ids:decision"
          list={paths.ids}
          fields={fields}
          defaults={{ duration: secondsOf(value.ban_duration) }}
          preview={false}
          verb={i18n.t('ids:decision.verb')}
        />
      )}
    </Loaded>
  )
}
