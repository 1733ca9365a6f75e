import { Switch } from '@mantine/core'
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useTranslation } from 'react-i18next'
import type { Singleton } from '../../api/resource'
import { useCanEdit } from '../../api/session'
import { usualIntent } from '../change/intent'
import { Facts } from '../page/Page'
import { Loaded } from '../state/Loaded'
import { OnOff } from '../state/StateBadge'
import { toastApplied, toastFault } from '../state/toast'

interface FlagProps {
  /** Where its texts are: `${text}.label` and `${text}.help`. */
  text: string
  flag: Singleton<{ enabled: boolean }>
  /** Replaces the change: asks first, and then makes it. */
  ask?: (enabled: boolean) => Promise<unknown>
  /** Asks whether to make the change despite its effects. */
  agreed?: (enabled: boolean) => Promise<boolean>
}

/** A switch that is a setting: it changes when the gateway has stored it. */
export function Flag({ text, flag, ask, agreed = async () => true }: FlagProps) {
  const { t } = useTranslation()
  const canEdit = useCanEdit()
  const queries = useQueryClient()
  const query = useQuery({ queryKey: [flag.kind], queryFn: flag.read })
  const change = useMutation({
    mutationFn: (enabled: boolean) => flag.update({ enabled }, null, undefined, usualIntent(flag.kind)),
    onSuccess: ({ applied }) => toastApplied(t('form.saved'), applied),
    onError: toastFault,
    onSettled: () => queries.invalidateQueries({ queryKey: [flag.kind] }),
  })
  const set = async (enabled: boolean) => (await agreed(enabled)) && change.mutate(enabled)
  return (
    <Loaded query={query} height={40}>
      {({ value }) =>
        canEdit ? (
          <Switch
            label={t(`${text}.label`)}
            description={t(`${text}.help`)}
            checked={value.enabled}
            disabled={change.isPending}
            onChange={({ currentTarget: { checked } }) => void (ask ?? set)(checked)}
          />
        ) : (
          <Facts facts={[[t(`${text}.label`), <OnOff key="on" on={value.enabled} />]]} />
        )
      }
    </Loaded>
  )
}
