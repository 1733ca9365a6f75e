import { useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import type { Resource } from '../../api/resource'
import { mayEdit } from '../../api/session'
import { usualIntent } from '../change/intent'
import { agreedTo, ownConnection } from '../change/own-connection'
import type { Guard } from '../change/remove'
import { renew } from '../change/renew'
import { OnOff } from '../state/StateBadge'
import { toastApplied, toastFault } from '../state/toast'
import classes from './DataTable.module.css'

interface RowSwitchProps<F extends string> {
  resource: Pick<Resource<unknown>, 'kind' | 'update'>
  row: { id: string } & Record<F, boolean>
  /** The row's on/off field. */
  field: F
  name: string
  /** It cannot cut off the console, so do not ask. */
  harmless?: boolean
  /** Called before the change, instead of the check of the console's connection. */
  guard?: Guard
}

/** Turns a row on or off in its list. */
export function RowSwitch<F extends string>(props: RowSwitchProps<F>) {
  const { resource, row, field, name, harmless, guard = ownConnection } = props
  const { t } = useTranslation()
  const queries = useQueryClient()
  const { kind } = resource
  const set = async (on: boolean) => {
    const body = { [field]: on }
    if (!harmless && !(await agreedTo({ kind, verb: 'update', id: row.id, body }, guard))) return
    const put = (value: boolean) =>
      queries.setQueryData<(typeof row)[]>([kind], (all) =>
        all?.map((one) => (one.id === row.id ? { ...one, [field]: value } : one)),
      )
    put(on)
    try {
      const { applied } = await resource.update(row.id, body, null, [field], usualIntent(kind))
      toastApplied(t(on ? 'switch.on' : 'switch.off', { name }), applied)
    } catch (cause) {
      put(!on)
      toastFault(cause)
    }
    await renew(queries, kind)
  }
  if (!mayEdit(queries)) return <OnOff on={row[field]} />
  return (
    <input
      type="checkbox"
      // biome-ignore lint/a11y/useAriaPropsForRole: a checkbox has its own state.
      role="switch"
      className={classes.switch}
      aria-label={t('switch.of', { name })}
      checked={row[field]}
      onChange={(event) => void set(event.currentTarget.checked)}
    />
  )
}
