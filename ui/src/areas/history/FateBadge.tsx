import { IconArrowBackUp, IconHourglass } from '@tabler/icons-react'
import { useTranslation } from 'react-i18next'
import type { ChangeSet } from '../../api/types'
import { Badge } from '../../kit/state/StateBadge'
import { fateOf, fateTones } from './fate'

const icons = { waiting: IconHourglass, taken_back: IconArrowBackUp, reverted: IconArrowBackUp } as const

/** The fate of a change set, if it is worth a badge. */
export function FateBadge({ set }: { set: Pick<ChangeSet, 'state' | 'reverted_by'> }) {
  const { t } = useTranslation('history')
  const fate = fateOf(set)
  if (fate === 'none') return null
  return (
    <Badge tone={fateTones[fate]} icon={fate === 'confirmed' ? undefined : icons[fate]}>
      {t(`states.${fate}`)}
    </Badge>
  )
}
